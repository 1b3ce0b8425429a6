// A statement is compiled once for all parameters (D132).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { stablePlan } from '../../src/store/statements.ts'

test('hides compared and limiting parameters from the planner', () => {
  for (const [sql, stable] of [
    [
      'select a from t where b = ? and c is ? limit ?',
      'select a from t where b = likely(?) and c is likely(?) limit likely(?)',
    ],
    [
      'select a from t where b>=? and c <> ? or d is not ?',
      'select a from t where b>=likely(?) and c <> likely(?) or d is not likely(?)',
    ],
    ['select a from t where b in (?)', 'select a from t where b in (likely(?))'],
    ['update t set a = ? where "k" = ?', 'update t set a = likely(?) where "k" = likely(?)'],
  ])
    assert.equal(stablePlan(sql!), stable)
})

test('keeps all other parameters, texts and names', () => {
  for (const sql of [
    'insert into t (a, b) values (?, ?)',
    'select value from json_each(?) where value in (?, ?)',
    `select 'limit ?', '= ?' as "a = ?" from t`,
    'select a from t where b like ?',
  ])
    assert.equal(stablePlan(sql), sql)
})

test('returns the same results: types, order, and no additional affinity', () => {
  const database = new Database(':memory:')
  database.exec(`create table t (k integer primary key, a text, n integer, b blob) strict;
    insert into t values (1, '1', 1, x'01'), (2, 'two', 2, x'02'), (3, null, null, null);`)
  for (const [sql, ...parameters] of [
    ['select k from t where a = ?', '1'],
    ['select k from t where a = ?', 1],
    ['select k from t where n = ?', '2'],
    ['select k from t where n <= ? order by k desc limit ?', 2, 1],
    ['select k from t where b = ?', Buffer.from([2])],
    ['select k from t where a is ?', null],
    ['select k from t where a is not ? order by k', null],
    ['select k from t where k in (?)', 2],
  ] as const) {
    const run = (text: string): unknown[] => database.prepare(text).all(...parameters)
    assert.deepEqual(run(stablePlan(sql)), run(sql), sql)
  }
  database.prepare(stablePlan('update t set n = ?, b = ? where k = ?')).run(7, Buffer.from([9]), 3)
  assert.deepEqual(database.prepare('select n, b from t where k = 3').get(), { n: 7, b: Buffer.from([9]) })
  database.close()
})

test('uses an index for such a comparison', () => {
  const database = new Database(':memory:')
  database.exec('create table t (k integer primary key, a text, d integer); create index t_a on t (a) where d is null;')
  const plan = database
    .prepare<[string], { detail: string }>(
      `explain query plan ${stablePlan('select k from t where a = ? and d is null')}`,
    )
    .all('x')
  assert.match(plan.map(({ detail }) => detail).join(), /^SEARCH t USING .*INDEX t_a \(a=\?\)$/)
  database.close()
})
