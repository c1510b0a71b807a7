-- postgresql
SELECT CAST(sales.orders.id AS VARCHAR(20)) AS id, CAST(sales.orders.notes AS JSONB) AS notes, CAST(sales.orders.id AS NUMERIC(10, 2)) AS id__1, sales.orders.id AS id__2, CAST(sales.orders.price AS INTEGER) AS price 
FROM sales.orders
