-- postgresql
SELECT cards.id, cards.number, cards.person_id, people.id AS id_1, people.name, people.kind, people.boss_id 
FROM people JOIN cards ON people.id = cards.person_id
