-- One look of a call that takes by force: grants what can be had, marks what somebody holds, and takes it in time.
-- KEYS: lock, fence, held_until, history
-- ARGV: ask, user, name, tab, ttl_ms, floor, save_ms, expect_fence
-- Returns: {'granted', 'saved', 'unsaved', 'asked' or 'busy', state}. saved and unsaved: it was handed over, and may have to
--   be claimed. asked: it is marked, by this call or another. busy: the hold expected has ended, and somebody was faster.
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ask, user, name, tab, ttl_ms, floor, save_ms, expect_fence = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]

-- Uses: clock, fence, hold, past, telling, giving, settling
local hold, text = settle()
local taker = {user = user, name = name, tab = tab, ask = ask}
if hold and hold.unclaimed and hold.ask == ask then return {hold.saved and 'saved' or 'unsaved', describe(text)} end
if hold and hold.user == user and hold.tab == tab then
  local state = describe(extend(hold, ask, tonumber(ttl_ms)))
  -- Handed over while this call waited, to another call of the same tab: both asked for it, so both learn how it went.
  local was_handed = expect_fence ~= '' and expect_fence ~= hold.fence and hold.saved ~= nil
  return {was_handed and (hold.saved and 'saved' or 'unsaved') or 'granted', state}
end
if hold and expect_fence ~= '' and expect_fence ~= hold.fence then return {'busy', describe(text)} end

if not hold or hold.user == user and not hold.taking then
  local count = mint(floor)
  if hold then end_hold(hold, 'moved', now_ms, hold) end
  local _, given = give(taker, ask, count, tonumber(ttl_ms))
  return {'granted', describe(given)}
end
if not hold.taking then
  hold.taking, hold.step = taker, hold.step + 1
  taker.until_ms = now_ms + save_ms
  local state = describe(write_hold(hold))
  tell('document_force_save_requested', taker, nil, state)
  return {'asked', state}
end
if hold.taking.ask == ask and hold.taking.until_ms <= now_ms then
  return {'unsaved', describe(give_back(hold, 'taken', false))}
end
return {'asked', describe(text)}
