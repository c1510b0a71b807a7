-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.notes = %(notes_1)s::JSON
