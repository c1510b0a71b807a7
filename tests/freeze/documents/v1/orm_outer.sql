-- postgresql
SELECT people.id, people.name, people.kind, people.boss_id 
FROM people LEFT OUTER JOIN cards ON people.id = cards.person_id 
WHERE cards.id IS NULL
