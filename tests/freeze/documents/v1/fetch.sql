-- postgresql
SELECT customers.id 
FROM customers ORDER BY customers.id
 OFFSET (%(param_1)s::INTEGER) ROWS
 FETCH FIRST (%(param_2)s::INTEGER) ROWS WITH TIES
