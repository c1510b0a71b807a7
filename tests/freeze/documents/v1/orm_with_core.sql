-- postgresql
SELECT people.name, customers.name AS name_1 
FROM people JOIN customers ON customers.id = people.id
