-- postgresql
SELECT engineers.language 
FROM people LEFT OUTER JOIN engineers ON people.id = engineers.id 
WHERE people.name = %(name_1)s::VARCHAR
