-- KEYS: index. ARGV: the place before the page, the last place of the walk or empty, how many. Answers the last place, then texts and places.
local to = ARGV[2]
if to == '' then to = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or '0' end
to = string.format('%.0f', tonumber(to))
return {to, redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], to, 'WITHSCORES', 'LIMIT', 0, ARGV[3])}
