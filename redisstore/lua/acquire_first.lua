-- KEYS: record. ARGV: the first 8 bytes of a new record; owner; lease; not-after; retention; what stands behind the times (not-after,
-- retention, fingerprint, binding, and no cause, error or answer); empty, or what is unusual: a byte of flags (1 force, 2 must be issued)
-- and the fence of IfFence.
local notafter = ARGV[4] + 0
if notafter ~= 0 and now > notafter then return struct.pack('>BI8', 101, now) end
if ARGV[7] == '' then
  if not raw then -- a new key: its fence is the clock
    local lease = now + ARGV[3]
    if string.byte(ARGV[1], 3) % 2 == 0 then -- under Refuse nothing but a person removes it while it runs
      redis.call('SET', KEYS[1], ARGV[1] .. struct.pack('>I8c16I8I8I8I8', now, ARGV[2], lease, 0, now, now) .. ARGV[6])
      return struct.pack('>BI8I8', 99, now, 0) -- the caller has the rest
    end
  else -- a repeat of finished work, with the same payload and credential
    local state, expires = string.byte(raw, 2), struct.unpack('>I8', raw, 41)
    if (state == 3 or state == 4) and string.byte(raw, 1) == 1 and (expires == 0 or now < expires) then
      local asked = string.sub(ARGV[6], 17, -13)
      if string.sub(raw, 81, 80 + #asked) == asked then return struct.pack('>BI8', 3, now) .. raw end
    end
  end
end
