-- KEYS: record, and the index of unfinished records if there is one. ARGV: what a new record begins with (8 bytes), owner, lease8; what stands behind its times (not-after8, retention8,
-- fingerprint, binding, and no cause, error, earlier attempts or answer); and only where something is unusual: a byte of flags (1 force, 2 must be issued,
-- 4 IfFence, 8 asks, 16 Finish) and the fence of IfFence, 8 bytes; then the packed record of Finish, without what the claim gives it.
local new, owner, lease = struct.unpack('>c8c16I8', ARGV[1])
local notafter = struct.unpack('>I8', ARGV[2])
if notafter ~= 0 and now > notafter then return struct.pack('>BI8', 101, now) end
if not ARGV[3] then
  if not raw then -- a new key: its fence is the clock
    if KEYS[2] then -- in a joined run the first shows that it is allowed, before anything is written, and the others come at the end
      if not later or #later == 0 then redis.call('ZADD', KEYS[2], '0', KEYS[1]) end
      if later then
        later[#later + 1] = '0'
        later[#later + 1] = KEYS[1]
      end
    end
    if string.byte(new, 3) % 2 == 0 then -- under Refuse nothing but a person removes it while it runs
      redis.call('SET', KEYS[1], struct.pack('>c8I8c16I8I8I8I8', new, now, owner, now + lease, 0, now, now) .. ARGV[2])
      return struct.pack('>BI8I8', 99, now, 0) -- the caller has the rest
    end
    local retention = struct.unpack('>I8', ARGV[2], 9)
    if lease + retention < 7000000000000000 then -- under Reexecute it expires
      local expires = now + lease + retention
      redis.call('SET', KEYS[1], struct.pack('>c8I8c16I8I8I8I8', new, now, owner, now + lease, expires, now, now) .. ARGV[2], 'PXAT', string.format('%d', math.ceil(expires / 1000)))
      return struct.pack('>BI8I8', 99, now, expires)
    end
  else -- a repeat of finished work, with the same payload and credential
    local state, expires = string.byte(raw, 2), struct.unpack('>I8', raw, 41)
    if (state == 3 or state == 4) and string.byte(raw, 1) == 1 and (expires == 0 or now < expires) then
      local asked = string.sub(ARGV[2], 17, -14)
      if string.sub(raw, 81, 80 + #asked) == asked then return struct.pack('>BI8', 3, now) .. raw end
    end
  end
end
