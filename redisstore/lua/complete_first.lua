-- KEYS: record. ARGV: fence8 and owner; the flags of the answer and the state, a byte each; codec to digest; body; empty for the
-- record's retention, or retention8 and its digits; 1 for the light form; 1 where replicas
-- have to confirm; 1 to publish.
if raw and string.byte(raw, 1) == 1 and string.byte(raw, 2) == 2 and string.sub(raw, 9, 32) == ARGV[1] and ARGV[5] ~= '' and
  string.sub(raw, 41, 48) == '\0\0\0\0\0\0\0\0' then
  local at = 82 + string.byte(raw, 81)
  at = at + 1 + string.byte(raw, at)
  local span = string.sub(ARGV[5], 9) + 0
  if span < 7000000000000000 and string.sub(raw, at, at + 2) == '\0\0\0' then -- an end, and no cause or error of an earlier attempt
    local flags, expires = string.byte(raw, 3) % 64, now + span
    flags = flags - flags % 16 + flags % 4 + string.byte(ARGV[2]) -- of an attempt: neither kept nor without a body
    if ARGV[8] == '1' then redis.call('PUBLISH', KEYS[1], '') end
    if ARGV[6] == '1' then -- flags: reexecute, issued, and that there is nothing
      local head = struct.pack('>BBBBc28I8', 1, string.byte(ARGV[2], 2), string.byte(raw, 3) % 4 + 56, 0, string.sub(raw, 5, 32), 0)
      redis.call('SET', KEYS[1], head, 'PXAT', string.format('%.0f', math.ceil(expires / 1000)))
      return struct.pack('>BI8', 102, now) .. head .. struct.pack('>I8c8c8', math.ceil(expires / 1000) * 1000, string.sub(raw, 9, 16), string.sub(raw, 9, 16)) ..
        string.rep('\0', 30)
    end
    local head = struct.pack('>BBBBc28I8I8c8I8c8c8', 1, string.byte(ARGV[2], 2), flags, 0, string.sub(raw, 5, 32), 0, expires,
      string.sub(raw, 49, 56), now, string.sub(raw, 65, 72), ARGV[5]) .. string.sub(raw, 81, at + 2) .. ARGV[3]
    redis.call('SET', KEYS[1], head .. ARGV[4], 'PXAT', string.format('%.0f', math.ceil(expires / 1000)))
    return struct.pack('>BI8', 102, now) .. head -- the caller has the body
  end
end
