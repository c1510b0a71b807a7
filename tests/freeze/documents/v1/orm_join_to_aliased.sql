-- postgresql
SELECT worker.id, worker.name, worker.kind, worker.boss_id, people_1.name AS name_1 
FROM people AS worker JOIN people AS people_1 ON worker.boss_id = people_1.id
