-- postgresql
WITH cards2 AS 
(SELECT cards.id AS id, cards.number AS number, cards.person_id AS person_id 
FROM cards)
 SELECT cards2.id, cards2.number, cards2.person_id 
FROM cards2
