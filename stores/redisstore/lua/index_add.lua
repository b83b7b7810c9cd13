-- KEYS: index. ARGV: the text of a key. Each entry has a place of its own, which grows: the time in microseconds or more.
local time = redis.call('TIME')
local place = time[1] * 1000000 + time[2]
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if last[2] and tonumber(last[2]) >= place then place = tonumber(last[2]) + 1 end
redis.call('ZADD', KEYS[1], string.format('%.0f', place), ARGV[1])
return redis.call('ZCARD', KEYS[1])
