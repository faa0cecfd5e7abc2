/** The order of requests for one thing: an older response never takes the place of a newer one. */

/** Called when a request begins; what it gives back says whether its response is still news, and then counts it. */
export type Order = () => () => boolean;

/** Requests of one kind, of which several may be under way: the server may answer them in any order. */
export function newOrder(): Order {
  let begun = 0;
  let taken = 0;
  return () => {
    begun += 1;
    const mine = begun;
    return () => {
      const isNews = mine > taken;
      if (isNews) taken = mine;
      return isNews;
    };
  };
}
