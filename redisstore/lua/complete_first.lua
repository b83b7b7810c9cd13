-- KEYS: record. ARGV: fence8 and owner; the flags of the answer and the state, a byte each; codec to digest; body; empty for the
-- record's retention, or retention8 and its digits; 1 for the light form; 1 where replicas
-- have to confirm; 1 to publish.
if raw and #raw > 83 and ARGV[5] ~= '' then
  local version, state, was, attempt, who, never, created, notafter, n = struct.unpack('>BBBxc4c24xxxxxxxxc8c8xxxxxxxxc8xxxxxxxxB', raw)
  local span = struct.unpack('>I8', ARGV[5])
  if who == ARGV[1] and state == 2 and version == 1 and never == '\0\0\0\0\0\0\0\0' and span < 7000000000000000 then
    local at = 82 + n
    at = at + 1 + string.byte(raw, at)
    local cause, high, low = string.byte(raw, at, at + 2)
    if cause == 0 and high == 0 and low == 0 then -- an end, and no cause or error of an earlier attempt
      local expires, flags, done = now + span, string.byte(ARGV[2], 1, 2)
      was = was % 64
      if ARGV[8] == '1' then redis.call('PUBLISH', KEYS[1], '') end
      if ARGV[6] == '1' then -- flags: reexecute, issued, and that there is nothing
        local head = struct.pack('>BBBBc4c24I8', 1, done, was % 4 + 56, 0, attempt, who, 0)
        redis.call('SET', KEYS[1], head, 'PXAT', math.ceil(expires / 1000))
        return struct.pack('>BI8', 102, now) .. head .. struct.pack('>I8c8c8', math.ceil(expires / 1000) * 1000, string.sub(raw, 9, 16), string.sub(raw, 9, 16)) ..
          string.rep('\0', 30)
      end
      flags = was - was % 16 + was % 4 + flags -- of an attempt: neither kept nor without a body
      local middle = string.sub(raw, 81, at + 2)
      redis.call('SET', KEYS[1], struct.pack('>BBBBc4c24I8I8c8I8c8c8', 1, done, flags, 0, attempt, who, 0, expires, created, now, notafter, ARGV[5]) ..
        middle .. ARGV[3] .. ARGV[4], 'PXAT', math.ceil(expires / 1000))
      return struct.pack('>BI8Bc4c8c8', 98, now, flags, attempt, created, notafter) .. middle -- the caller has the rest
    end
  end
end
