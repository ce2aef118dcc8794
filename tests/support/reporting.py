"""What a report says, read as a browser reads it."""

from html.parser import HTMLParser

VOID = {"meta"}


class Document(HTMLParser):
    """Elements of a page: (tag, attributes) in order, the text of them, ids, and what is open."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.open = [], [], []
        self.source = text
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def tags(self):
        return {tag for tag, _ in self.elements}

    @property
    def ids(self):
        return [attrs["id"] for _, attrs in self.elements if "id" in attrs]

    @property
    def text(self):
        """All that can be read, on one line."""
        return " ".join(" ".join(self.texts).split())
