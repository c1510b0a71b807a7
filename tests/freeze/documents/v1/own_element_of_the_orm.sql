-- postgresql
SELECT coalesce(people.id, 0) AS id, people.name 
FROM people 
WHERE least(people.id, %(param_1)s::INTEGER, %(param_2)s::INTEGER) < %(param_3)s::INTEGER
