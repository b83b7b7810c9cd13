-- The answers of nginx itself: problem documents, as in docs/problems.
local json = require("cjson").new()

local M = {docs = "https://github.com/retrysafe/retrysafe/blob/main/docs/problems/"}

local all = {
  ["key-malformed"] = {400, "The idempotency key is malformed"},
  ["key-missing"] = {400, "This request needs an idempotency key",
    "Send a random key in the header, one per logical action, and the same one in each retry. Nothing was done."},
  ["key-too-short"] = {400, "The idempotency key is too short",
    "Nothing but its key tells this request from those of strangers, and a short key can be guessed: send 128 random bits or more, " ..
    "for example a UUID, or a credential, with which a key of any length will do. Nothing was done."},
  ["body-incomplete"] = {400, "The request body did not arrive whole", "Send the request again with the same key. Nothing was done."},
  ["tenant-missing"] = {403, "The caller is not known", "Log in, and send the request again with the same key. Nothing was done."},
  ["in-progress"] = {409, "The first request with this key is still being worked on", "Ask again with the same key after Retry-After."},
  ["already-done"] = {409, "This was done before", "This request did nothing. Look up what the first one made."},
  ["outcome-unknown"] = {409, "It is unknown whether the first request with this key took effect",
    "It is not run again. Find out its outcome before you send it with a new key."},
  ["caller-ambiguous"] = {400, "This request names its caller in two ways", "Send one credential, once. Nothing was done."},
  ["cookies-changed"] = {409, "This key was used with other cookies", "Callers without a credential are told apart by their cookies. Send the " ..
    "retry with the cookies of the first request. The operator of this service can name those that count (binding). Nothing was done."},
  ["principal-changed"] = {409, "This key was used with another credential",
    "Send the retry with the credential of the first request. Nothing was done."},
  ["answer-not-kept"] = {409, "This was done before, and its answer was not stored",
    "This request did nothing. Look up what the first one made."},
  ["lease-lost"] = {409, "Another attempt has taken this key over", "Send the request again with the same key to get its answer."},
  ["resolved-failed"] = {409, "This was refused for good"},
  ["body-too-large"] = {413, "The request body is too large to be guarded", "Send a smaller body. Nothing was done."},
  ["payload-mismatch"] = {422, "This key was used with another request",
    "Use a new key for a new request; a retry repeats the first one to the letter. Nothing was done."},
  ["store-unavailable"] = {503, "The record of this key cannot be reached",
    "Nothing was done. Send the request again with the same key after Retry-After."},
  ["upstream-unreachable"] = {503, "The service cannot be reached",
    "The request was not sent. Send it again with the same key after Retry-After."},
}

local order = {"type", "title", "status", "detail", "code", "error_code", "answer_status", "answer_length", "answer_sha256", "location"}

-- send answers with a problem. more may have other members of the document, and retry_after in
-- seconds.
function M.send(code, more)
  local known = all[code]
  local p = {type = M.docs .. code .. ".md", status = known[1], title = known[2], detail = known[3], code = code}
  for name, v in pairs(more or {}) do p[name] = v end
  local members = {}
  for _, name in ipairs(order) do
    if p[name] ~= nil then members[#members + 1] = ('"%s":%s'):format(name, (json.encode(p[name]):gsub("\\/", "/"))) end
  end
  local body = "{" .. table.concat(members, ",") .. "}\n"
  local h = ngx.header
  ngx.status = p.status
  h["Content-Type"], h["Cache-Control"] = "application/problem+json", "no-store"
  h["Link"] = "<" .. p.type .. '>; rel="describedby"'
  h["Retry-After"] = p.retry_after
  h["Content-Length"] = #body
  ngx.print(body)
end

local seeded

-- jittered spreads retries over the seconds up to most, so that the duplicates of one key do not
-- all retry at the same moment.
function M.jittered(most)
  if not seeded then
    math.randomseed(ngx.now() * 1000 + ngx.worker.pid())
    seeded = true
  end
  return math.random(1, math.min(5, math.max(1, math.ceil(most))))
end

return M
