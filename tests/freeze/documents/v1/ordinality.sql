-- postgresql
SELECT anon_1.tag, anon_1.n 
FROM unnest(sales.orders.tags) WITH ORDINALITY AS anon_1(tag, n)
