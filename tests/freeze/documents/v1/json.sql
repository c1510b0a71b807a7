-- postgresql
SELECT sales.orders.notes -> %(notes_1)s::TEXT AS anon_1, sales.orders.notes #> %(notes_2)s AS anon_2, sales.orders.data ->> %(data_1)s::TEXT AS anon_3, sales.orders.data #> %(data_2)s AS anon_4, CAST(sales.orders.notes ->> %(notes_3)s::TEXT AS INTEGER) AS anon_5 
FROM sales.orders 
WHERE sales.orders.data @> %(data_3)s::JSONB AND sales.orders.data ? %(data_4)s::VARCHAR
