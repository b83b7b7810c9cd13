-- KEYS and ARGV: as those of lock.lua. Says 1; 0: the owner does not have it. The owner stays with it, so that a repeat is told the same.
local call, unpack = redis.call, struct.unpack
local had = call('GET', KEYS[1])
if not had or #had ~= 33 then
  return 0
end
local owner, _, remember = unpack('>c16I8I8', ARGV[1])
local who, fence, ends = unpack('>xc16I8I8', had)
if who ~= owner then
  return 0
end
if ends ~= 0 then
  local floor = call('GET', KEYS[2])
  if floor and #floor ~= 8 then
    return redis.error_reply('WRONGTYPE not the floor of locks of this format')
  end
  if not floor or unpack('>I8', floor) < fence then
    call('SET', KEYS[2], struct.pack('>I8', fence))
  end
  call('SET', KEYS[1], struct.pack('>Bc16I8I8', 1, owner, fence, 0), 'PX', string.format('%d', remember))
  call('PUBLISH', KEYS[1], 'released')
end
return 1
