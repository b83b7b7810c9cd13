-- The answer is 1 or 0 for whole, and how many ids the windows have, the current one first.
for n = 1, COUNT do fields[n] = 'ids ' .. live[n] end
local answer = {whole and '1' or '0'}
for n, ids in ipairs(redis.call('HMGET', META, unpack(fields))) do answer[n + 1] = ids or '0' end
return table.concat(answer, ' ')
