import { type RefObject, useEffect, useState } from 'react';

/** True while the element is on the screen, or close to it. */
export function useIsVisible(element: RefObject<Element | null>): boolean {
  const [isVisible, setIsVisible] = useState(false);
  useEffect(() => {
    const watched = element.current;
    if (watched === null) return;
    const observer = new IntersectionObserver(
      (entries) => setIsVisible(entries.some((entry) => entry.isIntersecting)),
      { rootMargin: '200px' },
    );
    observer.observe(watched);
    return () => observer.disconnect();
  }, [element]);
  return isVisible;
}
