// What people type and write in the console is read in time that grows with its length alone: a signed-in person must
// not hold up the server for all others.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fieldsIn } from '../../src/console/pages/contacts.ts'
import { readPictures } from '../../src/message/pictures.ts'
import { costingAtOnce } from '../kit/cost.ts'

test('fields of a contact: one to a line, a name and a value', () => {
  assert.deepEqual(fieldsIn('city:Köln\r\n  plan : a:b  \nempty:\nno colon\n : x\n\n'), [
    ['city', 'Köln'],
    ['plan', 'a:b'],
    ['empty', ''],
  ])
})

test('pictures of a page, with their address and their text', () => {
  const picturesOf = (html: string) => Array.from(readPictures(html), ({ alt, url }) => [url, alt])
  assert.deepEqual(picturesOf('<p>no</p><imgx>'), [])
  assert.deepEqual(picturesOf(`<img src=a alt="A > B"><IMG alt='x'/><img alt=word src="b?c&amp;d ">`), [
    ['a', 'A > B'],
    ['', 'x'],
    ['b?c&d', 'word'],
  ])
  assert.deepEqual(picturesOf('<img><img src="a>b"><img alt=""><img alt src=c><img data-alt="x">'), [
    ['', ''],
    ['a>b', ''],
    ['', ''],
    ['c', ''],
    ['', ''],
  ])
})

test('no line and no page makes either slow', () => {
  for (const piece of [' ', 'a ', ': ', ' :']) costingAtOnce(500, () => fieldsIn(piece.repeat(100_000)))
  for (const piece of ['<img ', '<img alt="', "<img src='", '<img/'])
    costingAtOnce(500, () => [...readPictures(piece.repeat(100_000))])
})
