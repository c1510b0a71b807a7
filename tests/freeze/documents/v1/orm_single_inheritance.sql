-- postgresql
SELECT people.level 
FROM people 
WHERE people.kind IN (__[POSTCOMPILE_kind_1])
