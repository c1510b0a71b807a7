-- postgresql
SELECT id FROM customers WHERE id = %(x)s::INTEGER
