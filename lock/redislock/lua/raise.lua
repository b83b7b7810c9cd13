-- KEYS: the lock. ARGV: owner (16 bytes), the least fence that it is to have (8). Says 1; 0: the owner does not have it, and nothing is changed.
local had = redis.call('GET', KEYS[1])
if not had or string.sub(had, 2, 17) ~= string.sub(ARGV[1], 1, 16) then
  return 0
end
local fence, ends = struct.unpack('>I8I8', had, 18)
local least = struct.unpack('>I8', ARGV[1], 17)
if ends == 0 then
  return 0
end
if fence < least then
  redis.call('SET', KEYS[1], string.sub(had, 1, 17) .. struct.pack('>I8I8', least, ends), 'KEEPTTL')
end
return 1
