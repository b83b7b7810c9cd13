-- KEYS: two keys in different slots. A cluster refuses them.
return 1
