-- postgresql
SELECT customers.id 
FROM customers 
WHERE customers.name LIKE %(name_1)s::VARCHAR ESCAPE '/' AND customers.name ILIKE %(name_2)s::VARCHAR AND (customers.name LIKE '%%' || %(name_3)s::VARCHAR || '%%' ESCAPE '/') AND (customers.name LIKE %(name_4)s::VARCHAR || '%%') AND customers.name NOT LIKE %(name_5)s::VARCHAR AND (customers.name ILIKE '%%' || %(name_6)s::VARCHAR)
