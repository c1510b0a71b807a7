-- postgresql
(SELECT customers.id 
FROM customers EXCEPT SELECT sales.orders.id 
FROM sales.orders) UNION ALL (SELECT customers.id 
FROM customers INTERSECT SELECT buyer.id 
FROM customers AS buyer)
