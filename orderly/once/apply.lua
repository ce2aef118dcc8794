-- Decides as orderly/once/rule.py does, runs the effect if it is to be had, and notes it: as one.
-- KEYS[1]: the row. ARGV: offset, token or '', stored_at, id or '', ids to keep,
-- then for each command the number of its words and the words.
-- Returns the verdict, and offset and token of the row as it was.
local offset, token, stored_at = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local id, recent_limit = ARGV[4], tonumber(ARGV[5])
local row = redis.call('HMGET', KEYS[1], 'offset', 'token', 'stored_at', 'recent')
local row_offset, row_token = tonumber(row[1] or -1), row[2] or ''
local row_stored_at, recent = tonumber(row[3] or 0), row[4] or ''
local known = id ~= '' and string.find(' ' .. recent .. ' ', ' ' .. id .. ' ', 1, true) ~= nil

local function answer(verdict)
  return {verdict, row_offset, row_token}
end

-- Tokens are compared as text, '' below all others: a number of Lua's has 53 bits only.
local function below(one, other)
  return #one < #other or (#one == #other and one < other)
end

if token ~= '' and below(token, row_token) then
  return answer('stale_owner')
end
local highest = below(row_token, token) and token or row_token
if offset <= row_offset then
  if stored_at > row_stored_at and not known then
    return answer('recreated')
  end
  if highest ~= row_token then
    redis.call('HSET', KEYS[1], 'token', highest)
  end
  return answer('repeat')
end

if not known then
  local at, count = 6, 0
  while at <= #ARGV do
    local words = tonumber(ARGV[at])
    local result = redis.pcall(unpack(ARGV, at + 1, at + words))
    if type(result) == 'table' and result.err then
      return redis.error_reply(string.format(
        'ONCE after %d of its commands the effect failed: %s', count, result.err))
    end
    at, count = at + 1 + words, count + 1
  end
  if id ~= '' then
    recent = recent == '' and id or recent .. ' ' .. id
  end
  local ids = {}
  for each in string.gmatch(recent, '%S+') do ids[#ids + 1] = each end
  recent = table.concat(ids, ' ', math.max(1, #ids - recent_limit + 1))
end
redis.call('HSET', KEYS[1], 'offset', ARGV[1], 'recent', recent,
  'stored_at', string.format('%.0f', math.max(stored_at, row_stored_at)))
if highest ~= '' then
  redis.call('HSET', KEYS[1], 'token', highest)
end
return answer(known and 'duplicate' or 'apply')
