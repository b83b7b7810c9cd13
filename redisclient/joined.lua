-- KEYS: one for each call, and the one that they share if there is one. ARGV: the number of arguments of each call, a byte each; then the arguments. Answers the calls' answers, and
-- the numbers and errors of those that failed, whose answer is empty. A run ends early if the answers grow large.
local counts, at, size, answers, failed = ARGV[1], 1, 0, {}, {}
local key, args, last = {}, {}, 0 -- used again by each call, since new tables cost more than all else here
local shared = KEYS[#counts + 1]
key[2] = shared
for i = 1, #counts do
  local n = string.byte(counts, i)
  key[1] = KEYS[i]
  for j = 1, n do args[j] = ARGV[at + j] end
  for j = n + 1, last do args[j] = nil end
  at, last = at + n, n
  local ok, r = pcall(one, key, args)
  if not ok then
    local text = type(r) == 'table' and r.err or tostring(r) -- this depends on the version of the server
    if not string.find(text, '^%u+ ') then text = 'ERR ' .. text end -- an error of Lua has no code
    failed[#failed + 1] = i
    failed[#failed + 1] = text
    r = ''
  end
  answers[i] = r
  size = size + #r
  if size > 1000000 then break end
end
