-- KEYS and ARGV: as those of lock.lua. Says 1; 0: the owner does not have it. The owner stays with it, so that a repeat is told the same.
local had = redis.call('GET', KEYS[1])
if not had or string.sub(had, 2, 17) ~= string.sub(ARGV[1], 1, 16) then
  return 0
end
local fence, ends = struct.unpack('>I8I8', had, 18)
if ends ~= 0 then
  local floor = redis.call('GET', KEYS[2])
  if floor and #floor ~= 8 then
    return redis.error_reply('WRONGTYPE not the floor of locks of this format')
  end
  if not floor or struct.unpack('>I8', floor) < fence then
    redis.call('SET', KEYS[2], struct.pack('>I8', fence))
  end
  local _, remember = struct.unpack('>I8I8', ARGV[1], 17)
  redis.call('SET', KEYS[1], string.sub(had, 1, 17) .. struct.pack('>I8I8', fence, 0), 'PX', string.format('%.0f', remember))
  redis.call('PUBLISH', KEYS[1], 'released')
end
return 1
