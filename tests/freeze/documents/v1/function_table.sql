-- postgresql
SELECT anon_1.value 
FROM generate_series(%(generate_series_1)s::INTEGER, %(generate_series_2)s::INTEGER) AS anon_1
