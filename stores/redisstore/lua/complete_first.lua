-- KEYS: record, and the index of unfinished records if there is one. ARGV: fence8, owner, flags of the answer, state, how (1 light form, 2 publish, 4 replicas have to confirm, 8 the record's
-- retention counts), retention8; codec to digest; body.
local mark, flags, done, how, span = struct.unpack('>c24BBBI8', ARGV[1])
if raw and #raw > 83 and how < 8 then
  local version, state, was, attempt, who, till, created, notafter, n = struct.unpack('>BBBxc4c24xxxxxxxxI8c8xxxxxxxxc8xxxxxxxxB', raw)
  if who == mark and state == 2 and version == 1 and (till == 0 or now < till) and span < 7000000000000000 then
    local at = 82 + n
    at = at + 1 + string.byte(raw, at)
    local cause, high, low, worked = string.byte(raw, at, at + 3)
    if cause == 0 and high == 0 and low == 0 and worked == 0 then -- an end, and no cause, error or earlier attempt
      local expires = now + span
      was = was % 64
      if KEYS[2] then -- in a joined run the first shows that it is allowed, before anything is written, and the others come at the end
        if not later or #later == 0 then redis.call('ZREM', KEYS[2], KEYS[1]) end
        if later then later[#later + 1] = KEYS[1] end
      end
      if how % 4 >= 2 then redis.pcall('PUBLISH', KEYS[1], '') end
      if how % 2 == 1 then -- flags: reexecute, issued, and that there is nothing
        local head = struct.pack('>BBBBc4c24I8', 1, done, was % 4 + 56, 0, attempt, who, 0)
        redis.call('SET', KEYS[1], head, 'PXAT', string.format('%d', math.ceil(expires / 1000)))
        return struct.pack('>BI8', 102, now) .. head .. struct.pack('>I8c8c8', math.ceil(expires / 1000) * 1000, string.sub(raw, 9, 16), string.sub(raw, 9, 16)) ..
          string.rep('\0', 31)
      end
      local all = was - was % 16 + was % 4 + flags -- of an attempt: neither kept nor without a body
      local middle = string.sub(raw, 81, at + 3)
      redis.call('SET', KEYS[1], struct.pack('>BBBBc4c24I8I8c8I8c8c8', 1, done, all, 0, attempt, who, 0, expires, created, now, notafter, string.sub(ARGV[1], 28)) ..
        middle .. ARGV[2] .. ARGV[3], 'PXAT', string.format('%d', math.ceil(expires / 1000)))
      return struct.pack('>BI8Bc4c8c8', 98, now, all, attempt, created, notafter) .. middle -- the caller has the rest
    end
  end
end
