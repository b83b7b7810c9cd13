local raw = redis.call('GET', KEYS[1])
local stored = raw
if raw and #raw == 40 then -- a finished record without its answer: the rest of it is the server's expiry, and nothing
  local at, made = redis.call('PEXPIRETIME', KEYS[1]), string.sub(raw, 9, 16)
  -- What is left of its life is its retention; without an end that is a number that Lua cannot hold.
  local left = at > 0 and struct.pack('>I8', math.max(at * 1000 - now, 1)) or '\0\32\196\155\165\227\83\247'
  raw = raw .. struct.pack('>I8c8c8I8c8', at > 0 and at * 1000 or 0, made, made, 0, left) .. string.rep('\0', 15)
end
