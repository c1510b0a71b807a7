-- mssql
SELECT TRY_CAST (sales.orders.id AS VARCHAR(max)) AS id 
FROM sales.orders
