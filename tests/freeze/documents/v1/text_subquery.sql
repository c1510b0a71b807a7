-- postgresql
SELECT s.id 
FROM (SELECT 1 AS id) AS s
