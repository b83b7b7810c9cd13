-- KEYS: record. ARGV: fence8 and owner; the flags of the answer and the state, a byte each; codec to digest; body; empty for the
-- record's retention, or retention8 and its digits.
if raw and string.byte(raw, 1) == 1 and string.sub(raw, 9, 32) == ARGV[1] and string.byte(raw, 2) == RUNNING and string.sub(raw, 41, 48) == ZERO8 and ARGV[5] ~= '' then
  local at = 82 + string.byte(raw, 81)
  at = at + 1 + string.byte(raw, at)
  if string.sub(raw, at, at + 2) == '\0\0\0' then -- no cause and no error of an earlier attempt
    local flags = string.byte(raw, 3) % 128
    flags = flags - flags % 16 + flags % 4 -- of an attempt: neither kept nor without a body
    local expires = after(now, tonumber(string.sub(ARGV[5], 9)))
    local head = string.char(1, string.byte(ARGV[2], 2), flags % 64 + string.byte(ARGV[2]), 0) .. string.sub(raw, 5, 32) .. ZERO8 .. int8(expires) ..
      string.sub(raw, 49, 56) .. now8 .. string.sub(raw, 65, 72) .. string.sub(ARGV[5], 1, 8) .. string.sub(raw, 81, at + 2) .. ARGV[3]
    put(head .. ARGV[4], expires)
    return say(DONE, head) -- the caller has the body
  end
end
