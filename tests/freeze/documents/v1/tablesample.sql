-- postgresql
SELECT customers_1.id 
FROM customers AS customers_1 TABLESAMPLE bernoulli(%(bernoulli_1)s::INTEGER)
