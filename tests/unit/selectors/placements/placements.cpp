// Reads numbers of queues, then one key a line (UTF-8 in hexadecimal), and prints its std::hash
// and its places. For g++ and its libstdc++, 64 bits.
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

int main() {
  std::string line;
  std::getline(std::cin, line);
  std::istringstream numbers(line);
  std::vector<size_t> counts;
  for (size_t count; numbers >> count;) {
    counts.push_back(count);
  }
  while (std::getline(std::cin, line)) {
    std::string key;
    for (size_t at = 0; at < line.size(); at += 2) {
      key.push_back(static_cast<char>(std::stoi(line.substr(at, 2), nullptr, 16)));
    }
    size_t hash = std::hash<std::string>{}(key);
    std::cout << hash;
    for (size_t count : counts) {
      int index = hash % count;  // as CProducer.cpp keeps it
      std::cout << ' ' << index;
    }
    std::cout << '\n';
  }
}
