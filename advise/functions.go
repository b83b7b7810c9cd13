package advise

import (
	"slices"
	"strings"
)

// wordSet returns the set of the words in text.
func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// pureFunctions are functions of the three databases that give the same result for the same
// arguments and rows, and write nothing.
var pureFunctions = wordSet(`
abs acos asin atan atan2 avg bit_and bit_count bit_length bit_or cast ceil ceiling char char_length character_length chr coalesce concat concat_ws
convert cos cot count count_star crc32 cume_dist date date_add date_format date_part date_sub date_trunc datediff dayofmonth dayofweek dayofyear degrees
dense_rank div elt encode decode every exp extract field find_in_set first_value floor format from_base64 from_unixtime glob greatest group_concat
hex hour if ifnull iif initcap instr interval inet6_aton inet_aton inet_ntoa isnull json json_agg json_array json_array_length json_build_object json_contains
json_each json_extract json_group_array json_group_object json_insert json_length json_object json_patch json_quote json_remove json_replace json_set
json_type json_unquote json_valid jsonb jsonb_agg jsonb_array_elements jsonb_build_object jsonb_object_agg jsonb_set julianday lag last_value lcase lead least left
length like ln locate log log10 log2 lower lpad ltrim make_date make_interval make_timestamp max md5 microsecond mid min minute mod month nth_value ntile nullif
num_nonnulls octet_length ord overlay percent_rank pi position pow power printf quarter quote quote_ident quote_literal radians rank regexp_match
regexp_replace regexp_split_to_array repeat replace reverse right round row row_number rpad rtrim second sha1 sha2 sha224 sha256 sha384 sha512 sign sin
soundex space split_part sqrt stddev str_to_date strcmp strftime string_agg strpos substr substring substring_index sum tan time timestampadd timestampdiff
to_base64 to_char to_date to_hex to_json to_jsonb to_number to_timestamp total translate trim trunc truncate typeof ucase unhex unicode unistr unnest upper
array array_agg array_append array_length array_position array_remove array_to_string btrim cardinality generate_series bool_and bool_or isfinite
justify_days lower_inc upper_inc variance var_pop var_samp stddev_pop stddev_samp week weekday weekofyear year yearweek values grouping
`)

// varyingFunctions are functions whose result differs each time or depends on the clock.
var varyingFunctions = wordSet(`
now current_timestamp current_time current_date localtime localtimestamp clock_timestamp statement_timestamp transaction_timestamp timeofday sysdate curdate
curtime utc_date utc_time utc_timestamp unix_timestamp random rand randomblob gen_random_uuid gen_random_bytes uuid uuidv4 uuidv7 uuid_short
uuid_generate_v1 uuid_generate_v1mc uuid_generate_v4 random_bytes random_normal age datetime unixepoch setseed txid_current pg_current_xact_id
ctid xmin xmax cmin cmax tableoid connection_id last_insert_id last_insert_rowid lastval currval changes total_changes found_rows row_count
`)

// clockFunctions are functions that return a time with a date, and how many digits of a second they
// tell.
func clockFunctions(d Dialect) (names map[string]bool, digits int) {
	switch d {
	case PostgreSQL:
		return wordSet(`now current_timestamp localtimestamp clock_timestamp statement_timestamp transaction_timestamp`), 6
	case MySQL:
		return wordSet(`now current_timestamp localtime localtimestamp sysdate utc_timestamp`), 0
	}
	return nil, 0
}

// unrepeatedFunctions are functions whose results never repeat.
var unrepeatedFunctions = wordSet(`gen_random_uuid uuid uuidv4 uuidv7 uuid_short uuid_generate_v1 uuid_generate_v1mc uuid_generate_v4 nextval`)

// counterFunctions are functions that draw from a counter: each call takes the next number.
var counterFunctions = wordSet(`nextval setval`)

// lockFunctions are functions that acquire or release locks, or wait. They change no data.
var lockFunctions = wordSet(`
pg_advisory_lock pg_advisory_xact_lock pg_try_advisory_lock pg_try_advisory_xact_lock pg_advisory_unlock pg_advisory_unlock_all
pg_advisory_lock_shared pg_advisory_xact_lock_shared pg_try_advisory_lock_shared pg_try_advisory_xact_lock_shared
get_lock release_lock release_all_locks is_free_lock is_used_lock pg_sleep sleep version database current_database current_schema current_user
session_user user schema pg_backend_pid current_setting set_config sqlite_version pg_is_in_recovery
`)

// maybeNow stands for a time that may be one of the clock, as what it is given says. It writes
// nothing.
const maybeNow = "a time that may be 'now'"

// unknownCalls returns the functions in e that this package does not know.
func unknownCalls(e *expr) (names []string) {
	for _, name := range e.callNames() {
		if !pureFunctions[name] && !varyingFunctions[name] && !counterFunctions[name] && !lockFunctions[name] && name != maybeNow {
			names = append(names, name)
		}
	}
	return names
}

// varyingCalls returns the functions in e whose result differs each time.
func varyingCalls(e *expr) (names []string) {
	for _, name := range e.callNames() {
		if varyingFunctions[name] || counterFunctions[name] {
			names = append(names, name)
		}
	}
	return names
}

// maybeNowCalls returns maybeNow if e depends on such a time.
func maybeNowCalls(e *expr) (names []string) {
	if slices.Contains(e.callNames(), maybeNow) {
		return []string{maybeNow}
	}
	return nil
}

// strictFunctions are functions, and operators, that give NULL only if an argument is NULL.
var strictFunctions = wordSet(`lower upper trim ltrim rtrim btrim md5 sha1 concat cast cutting + - * ||`)

// isNeverNull reports whether a value of the request is not NULL, as long as its parameters are
// not.
func isNeverNull(e *expr) bool {
	if e == nil || isNull(e) {
		return false
	}
	if e.kind == valueExpr {
		return true
	}
	return (e.kind == callExpr || e.kind == opExpr) && strictFunctions[e.name] && len(e.args) > 0 && !slices.ContainsFunc(e.args, func(a *expr) bool { return !isNeverNull(a) })
}

// idempotentFunctions are calls and ops that do not change their own result when they are applied
// to it again with the same other arguments.
var idempotentFunctions = wordSet(`coalesce ifnull greatest least | & max min or and`)
