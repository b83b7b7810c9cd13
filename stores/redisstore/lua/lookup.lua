-- KEYS: record. ARGV: 1 to leave the body out.
if absent then return say(DONE, '') end
if ARGV[1] == '1' then return say(DONE, string.sub(cur.raw, 1, body(cur) - 1)) end
return say(DONE, cur.raw)
