-- KEYS: what is known of the filter as a whole, a hash. ARGV: its format, milliseconds of a window or 0, number of windows; then those of
-- the script. Keys of bits have the name of that hash, with more behind it: they are in its slot.
local META, FORMAT, WINDOW, COUNT = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
-- A server that has started again, or another one, may have an older copy with every key in it.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
local known = redis.call('HMGET', META, 'format', 'run', 'turn', 'whole', 'epoch')
if known[1] and known[1] ~= FORMAT then
  error({err = 'RSFORMAT the filter of this name has the format ' .. known[1] .. ', and this process asks for ' .. FORMAT})
end
local whole = known[4] == '1' and known[2] == run
local epoch = known[5]
local turn = 0
if WINDOW > 0 then
  -- A clock that is set back moves no window.
  turn = math.max(math.floor((clock[1] * 1000 + math.floor(clock[2] / 1000)) / WINDOW), tonumber(known[3] or 0))
end

-- live are the numbers of the windows, the current one first; made[n] tells which keys of live[n] were made.
local live, fields = {}, {}
for n = 1, COUNT do
  live[n] = string.format('%.0f', turn - n + 1)
  fields[n] = 'made ' .. live[n]
end
local made = redis.call('HMGET', META, unpack(fields))
