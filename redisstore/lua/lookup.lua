-- KEYS: record. ARGV: 1 to leave the body out.
if absent then return {DONE, NOW, ''} end
if ARGV[1] == '1' then return {DONE, NOW, string.sub(cur.raw, 1, body(cur) - 1)} end
return {DONE, NOW, cur.raw}
