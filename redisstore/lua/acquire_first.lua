-- KEYS: record. ARGV: the first 8 bytes of a new record; owner; lease; not-after; retention; what stands behind the times (not-after,
-- retention, fingerprint, binding, and no cause, error or answer); empty, or what is unusual: a byte of flags (1 force, 2 must be issued)
-- and the fence of IfFence.
local notafter = tonumber(ARGV[4])
if notafter ~= 0 and now > notafter then return say(LATE, '') end
if not raw and ARGV[7] == '' then -- a new key: its fence is the clock
  local lease, expires = now + ARGV[3], 0
  if string.byte(ARGV[1], 3) % 2 == 1 then expires = after(lease, tonumber(ARGV[5])) end
  put(ARGV[1] .. now8 .. ARGV[2] .. int8(lease) .. int8(expires) .. now8 .. now8 .. ARGV[6], expires)
  return say(FRESH, int8(expires)) -- the caller has the rest
end
if raw and ARGV[7] == '' then -- a repeat of finished work, with the same payload and credential
  local state, expires = string.byte(raw, 2), struct.unpack('>I8', raw, 41)
  if (state == COMPLETED or state == FAILED) and string.byte(raw, 1) == 1 and (expires == 0 or now < expires) then
    local asked = string.sub(ARGV[6], 17, -13)
    if string.sub(raw, 81, 80 + #asked) == asked then return say(FINISHED, raw) end
  end
end
