-- postgresql
SELECT worker.name 
FROM people AS worker JOIN people AS people_1 ON people_1.id = worker.boss_id
