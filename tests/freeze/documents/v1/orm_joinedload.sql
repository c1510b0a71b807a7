-- postgresql
SELECT people.id, people.name, people.kind, people.boss_id, cards_1.id AS id_1, cards_1.number 
FROM people LEFT OUTER JOIN cards AS cards_1 ON people.id = cards_1.person_id
