-- postgresql
SELECT tag 
FROM unnest(sales.orders.tags) AS tag
