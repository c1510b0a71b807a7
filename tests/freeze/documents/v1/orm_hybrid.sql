-- postgresql
SELECT upper(people.name) AS upper_1, people.id 
FROM people 
WHERE upper(people.name) != %(upper_2)s::VARCHAR ORDER BY upper(people.name)
