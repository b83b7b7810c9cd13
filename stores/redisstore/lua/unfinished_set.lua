-- KEYS: record, index. Adds the record to the index if it is in progress, or if this script does not know its format or its state. Else removes it.
local version, state = string.byte(raw or '', 1, 2)
if raw and (version ~= 1 or state == 2 or not state or state < 1 or state > 5) then
  redis.call('ZADD', KEYS[2], '0', KEYS[1])
else
  redis.call('ZREM', KEYS[2], KEYS[1])
end
return 'done'
