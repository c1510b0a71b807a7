-- postgresql
SELECT people.id, people.name, people.kind, people.boss_id, cards.id AS id_1, cards.number, cards.person_id 
FROM people JOIN cards ON people.id = cards.person_id
